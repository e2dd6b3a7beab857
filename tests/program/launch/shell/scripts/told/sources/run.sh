source env.sh
. ./more.sh 5
SECRET=1 bash start.sh $N $M
